"""What happens to the data, one file a step, named by what happens."""
