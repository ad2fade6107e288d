"""What launcher and ranks share: names of variables, rank info, rank status, error records."""
