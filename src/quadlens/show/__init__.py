"""What people look at: figures, the report, the explorer."""
