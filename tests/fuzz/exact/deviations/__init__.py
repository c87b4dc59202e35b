"""Where the conversion knowingly does not do what Caffe2 does, with the reasons."""
