"""Documents of our own making, with their truth: classifier and confidence are made from them."""
