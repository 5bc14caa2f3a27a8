"""The C core: sources, the HIP headers of our own, and the build step."""
