"""Diagnose a key/value cache, by comparing decoding with the cache with decoding without it."""

from kmha.verify.diagnosing.caches.decoding import Decoding

__all__ = ["Decoding"]
