"""Generated documents with known values, and the scripts that fit classifier and calibration to them."""
