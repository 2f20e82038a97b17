"""Drives a `localharness` binary with the real Python SDK and a scripted model."""
