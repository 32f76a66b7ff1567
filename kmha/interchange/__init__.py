"""Weights between layouts: a dict of arrays in, a dict of arrays out. The one layout in the middle is `canonical`."""
