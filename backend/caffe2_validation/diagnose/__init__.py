"""Diagnosis of a difference: the operator of the net, the parameter, or the optimization that causes it."""
