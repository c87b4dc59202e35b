"""Gradients of Do, If and While, which have bodies too."""

from __future__ import annotations

from caffe2_bridge.gradients.control.branch import if_gradient
from caffe2_bridge.gradients.control.do import do_gradient
from caffe2_bridge.gradients.control.loop import while_gradient
from caffe2_bridge.gradients.family import Family

family = Family("control")

family.differentiates("Do", copies_arguments=False, copies_all=False)(do_gradient)
family.differentiates("If", copies_arguments=False, copies_all=False)(if_gradient)
family.differentiates("While", copies_arguments=False, copies_all=False)(while_gradient)
