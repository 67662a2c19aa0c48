"""Generated documents with known values, and the scripts that train classifier and calibration on them."""
