"""How a recording is launched: executable graphs, the choice between replay, patch, update, instantiate and eager."""
