"""What is certain: certificates of networks on pairs and on sequences."""
