"""A round of ours compared with federated averaging by Flower and with the formulas, byte by byte.

Each institution and the analyst run in their own network namespaces. Bytes are those that the interfaces
between them counted, headers of Ethernet, IP and TCP included. Needs Linux, root and `ip`; creates a virtual
environment for Flower on first use. docs/benchmarks-wire.md explains what is measured and how.
"""
