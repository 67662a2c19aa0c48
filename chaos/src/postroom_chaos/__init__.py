"""Break a running Postroom in every way a seed chooses, then prove that it lost and doubled nothing."""
