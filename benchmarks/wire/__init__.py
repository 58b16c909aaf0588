"""Every byte accounted for: a round of ours beside federated averaging by Flower, and beside the formulas.

Each institution and the analyst are machines of their own (network namespaces); bytes are what the
interfaces between them counted, headers of Ethernet, IP and TCP included. Needs Linux, root and `ip`;
makes a virtual environment for Flower on first use. docs/benchmarks-wire.md says what is measured how.
"""
