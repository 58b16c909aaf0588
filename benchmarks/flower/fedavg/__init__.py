"""Federated averaging of one MLP with Flower: its supported apps, and its deprecated gRPC API.

Runs in Flower's own virtual environment, on arrays the benchmark has written, one file per party.
"""
