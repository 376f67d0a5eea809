"""What studies of training share: data, networks, more methods, robustness; and a study of small networks."""
