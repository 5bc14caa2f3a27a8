"""The Metal layer: its call forms and its runner come with a later version."""
