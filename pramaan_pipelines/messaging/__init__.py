"""SQS and EventBridge: the clients, the CloudFormation template and its provisioning.

Promises: an answer is read entry by entry; a fault of the service is never told as a fault of the
message.
Never: decides what happens to a row or to a frame job; that is for the rooms above.
"""
