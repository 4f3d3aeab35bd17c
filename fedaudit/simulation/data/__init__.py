"""What clients train on: partition, data sets, loss masks, watermarked documents."""
