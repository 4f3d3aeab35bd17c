"""Attribution of watermarked documents to clients, under secure aggregation."""
