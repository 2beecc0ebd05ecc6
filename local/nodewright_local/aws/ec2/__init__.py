"""EC2: the catalogue, prices, images, fleets and the life of instances.

Networks, security groups, launch templates, volumes and tags stay with moto.
"""
