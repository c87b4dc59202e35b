"""The stores that URLs name: fsspec, web servers, zip archives."""
