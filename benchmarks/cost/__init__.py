"""What steepen costs beside its peers: time, bytecodes, memory (`python -m benchmarks cost`)."""
