"""Several devices: ranks that are processes, and collectives between them inside graphs."""

from hiprt.distributed.communicator import Communicator
from hiprt.distributed.place import Place, place_of
from hiprt.errors import RankError

__all__ = ["Communicator", "Place", "RankError", "place_of"]
