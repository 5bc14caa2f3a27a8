// Device code needs nothing of the host interface.
#pragma once
