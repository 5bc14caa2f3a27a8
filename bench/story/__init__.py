"""A small model that tells stories: their grammar, its training, its checkpoint and how it is scored."""
