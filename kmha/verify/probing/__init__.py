"""What `kmha.verify.probe` is made of: a call's inputs, the call, the properties that it may have, and the table."""
