// Slim: see kernelsweep_slim/types.h.
#pragma once
#include <kernelsweep_slim/types.h>
