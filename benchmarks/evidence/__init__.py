"""The evidence on training: what is trained, with which methods, and the tables made from the runs."""
