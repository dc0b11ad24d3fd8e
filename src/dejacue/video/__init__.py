"""Pictures of a video: opened, sampled, by number, as a stream; and crops of them."""
