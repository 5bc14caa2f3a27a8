"""What a step launched: the nodes of a recording, the edges between them, and the memory that they touch."""
