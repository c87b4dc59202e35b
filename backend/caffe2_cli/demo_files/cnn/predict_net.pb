
cnn2
image
conv1_w
conv1_bconv1"Conv*

kernel
conv1relu1"Relu/
relu1pool1"MaxPool*

kernel*

stride2
pool1
conv2_w
conv2_bconv2"Conv*

kernel
conv2relu2"Relu/
relu2pool2"MaxPool*

kernel*

stride1
pool2
scores_w
scores_bscores"FC*
axis
scoresdigit"Softmax:image:conv1_w:conv1_b:conv2_w:conv2_b:scores_w:scores_bBdigit