"""The Python language host for a machine whose `pulumi` came without one.

The released Pulumi CLI brings `pulumi-language-python`; an engine built from its Go module does not.
This package answers the language protocol so that plain `pulumi up` runs a Python project. When the
real host is on PATH, it is started instead.
"""
