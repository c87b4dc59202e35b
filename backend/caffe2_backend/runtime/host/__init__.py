"""Host operators: operators that are not computations on tensors run in Python, between the stages of a net.

A family is one file here: functions from :class:`HostOp` to nothing, registered by operator type, and the objects that
they work on, subclasses of :class:`HostObject`. ``registry.py`` lists the families.
"""
