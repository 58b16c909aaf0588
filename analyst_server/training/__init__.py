"""Models h and their metrics, on arrays.

`models` fits any of them, each kind has a module of its own, `onnx_file` exports them and `metrics` measures
them. All are imported by those who compute: the libraries behind them take seconds to load, and a server
that only serves does not need them.
"""
