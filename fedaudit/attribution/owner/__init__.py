"""The owner's part: watermarks, and testing estimates for them."""
