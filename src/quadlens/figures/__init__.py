"""From results to pictures: values in, matplotlib figures out; no computation of their own."""
