# Greets whoever is named, or else the world.
name=${1:-world}
echo "Hello, $nmae!"
