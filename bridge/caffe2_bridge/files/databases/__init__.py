"""Databases that Caffe2 saves blobs in: minidb, LevelDB, LMDB, and the operators Load of an init net that read them."""
