"""What a training can gain from stored samples: signal, gain, weights, and gradients on them."""
