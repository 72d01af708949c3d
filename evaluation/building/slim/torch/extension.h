// Slim: as torch's own.
#pragma once
#include <torch/all.h>
#include <torch/python.h>
