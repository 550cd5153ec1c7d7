"""A live page of class mixes: what they are now, whether they changed, and since when."""
