"""The manifest of a model for KServe, which serves the folder by Triton."""

from __future__ import annotations

import json
import re
from typing import Final

from caffe2_deploy.contents import Contents

_LONGEST: Final = 63


def manifest(contents: Contents) -> str:
    """Return an InferenceService (serving.kserve.io/v1beta1) as YAML; ``storageUri`` is for the user to fill in."""
    return "\n".join(
        (
            "apiVersion: serving.kserve.io/v1beta1",
            "kind: InferenceService",
            "metadata:",
            f"  name: {service_name(contents.name)}",
            "spec:",
            "  predictor:",
            "    model:",
            "      runtime: kserve-tritonserver",
            "      protocolVersion: v2",
            "      modelFormat:",
            "        name: onnx",
            "      # Where the folder 'models' was uploaded to: pvc://CLAIM/PATH, s3://BUCKET/PATH, gs://BUCKET/PATH",
            f"      storageUri: {json.dumps('pvc://models/' + contents.name)}",
            "",
        )
    )


def service_name(name: str) -> str:
    """Return the name of the service: lower-case letters, digits and dashes, as Kubernetes wants it."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST].strip("-")
    return plain or "model"
