"""Measures of a party's risk before it sends anything, and ways to lower it.

Only numpy is imported here.
"""
