"""Turns the sources that a candidate gives to load_inline or load into a shared object, quickly and never twice."""

from evaluation.building.builder import Builder
from evaluation.building.request import BuildReply, BuildRequest, RequestError

__all__ = ["BuildReply", "BuildRequest", "Builder", "RequestError"]
