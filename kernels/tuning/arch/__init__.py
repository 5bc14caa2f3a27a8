"""Architectures: the features and the launch shapes of each family. No plan names an architecture elsewhere."""
