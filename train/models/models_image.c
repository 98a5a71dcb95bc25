/* SPDX-License-Identifier: Apache-2.0
 *
 * models_image.c - the layers of the models for images: plain convolutional
 * networks, residual networks. */
#include "models/model.h"

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* Two convolutions and two dense layers; 28 x 28 and 32 x 32 pixels, any number that
 * can be halved twice. */
static const gwt_layer_spec cnn[] = {
    {.type = &gwt_layer_conv, .name = "conv1", .units = 32, .kernel = 3, .relu = 1},
    {.type = &gwt_layer_maxpool, .name = "pool1", .kernel = 2},
    {.type = &gwt_layer_conv, .name = "conv2", .units = 64, .kernel = 3, .relu = 1},
    {.type = &gwt_layer_maxpool, .name = "pool2", .kernel = 2},
    {.type = &gwt_layer_flatten, .name = "flatten"},
    {.type = &gwt_layer_dense, .name = "fc1", .units = 128, .relu = 1},
    {.type = &gwt_layer_dense, .name = "fc2"},
};

/* He et al.'s network for CIFAR-10 with three blocks for each width. */
static const gwt_layer_spec resnet20[] = {
    {.type = &gwt_layer_conv, .name = "conv", .units = 16, .kernel = 3, .no_bias = 1},
    {.type = &gwt_layer_batchnorm, .name = "bn", .relu = 1},
    {.type = &gwt_layer_residual, .name = "block1.1", .units = 16},
    {.type = &gwt_layer_residual, .name = "block1.2", .units = 16},
    {.type = &gwt_layer_residual, .name = "block1.3", .units = 16},
    {.type = &gwt_layer_residual, .name = "block2.1", .units = 32, .stride = 2},
    {.type = &gwt_layer_residual, .name = "block2.2", .units = 32},
    {.type = &gwt_layer_residual, .name = "block2.3", .units = 32},
    {.type = &gwt_layer_residual, .name = "block3.1", .units = 64, .stride = 2},
    {.type = &gwt_layer_residual, .name = "block3.2", .units = 64},
    {.type = &gwt_layer_residual, .name = "block3.3", .units = 64},
    {.type = &gwt_layer_average, .name = "average"},
    {.type = &gwt_layer_dense, .name = "fc"},
};

/* Simonyan and Zisserman's configuration D, with batch normalisation and one dense
 * layer, as usual for CIFAR-10. */
static const gwt_layer_spec vgg16[] = {
    {.type = &gwt_layer_conv, .name = "conv1.1", .units = 64, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn1.1", .relu = 1},
    {.type = &gwt_layer_conv, .name = "conv1.2", .units = 64, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn1.2", .relu = 1},
    {.type = &gwt_layer_maxpool, .name = "pool1", .kernel = 2},
    {.type = &gwt_layer_conv, .name = "conv2.1", .units = 128, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn2.1", .relu = 1},
    {.type = &gwt_layer_conv, .name = "conv2.2", .units = 128, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn2.2", .relu = 1},
    {.type = &gwt_layer_maxpool, .name = "pool2", .kernel = 2},
    {.type = &gwt_layer_conv, .name = "conv3.1", .units = 256, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn3.1", .relu = 1},
    {.type = &gwt_layer_conv, .name = "conv3.2", .units = 256, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn3.2", .relu = 1},
    {.type = &gwt_layer_conv, .name = "conv3.3", .units = 256, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn3.3", .relu = 1},
    {.type = &gwt_layer_maxpool, .name = "pool3", .kernel = 2},
    {.type = &gwt_layer_conv, .name = "conv4.1", .units = 512, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn4.1", .relu = 1},
    {.type = &gwt_layer_conv, .name = "conv4.2", .units = 512, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn4.2", .relu = 1},
    {.type = &gwt_layer_conv, .name = "conv4.3", .units = 512, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn4.3", .relu = 1},
    {.type = &gwt_layer_maxpool, .name = "pool4", .kernel = 2},
    {.type = &gwt_layer_conv, .name = "conv5.1", .units = 512, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn5.1", .relu = 1},
    {.type = &gwt_layer_conv, .name = "conv5.2", .units = 512, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn5.2", .relu = 1},
    {.type = &gwt_layer_conv, .name = "conv5.3", .units = 512, .kernel = 3},
    {.type = &gwt_layer_batchnorm, .name = "bn5.3", .relu = 1},
    {.type = &gwt_layer_maxpool, .name = "pool5", .kernel = 2},
    {.type = &gwt_layer_dense, .name = "fc"},
};

const gwt_model_spec gwt_model_cnn = {
    .name = "cnn",
    .summary = "two convolutions of 32 and 64 channels, two dense layers, ReLU",
    .layers = cnn,
    .count = COUNT(cnn),
};

const gwt_model_spec gwt_model_resnet20 = {
    .name = "resnet20",
    .summary = "residual network of 20 layers, 16-32-64 channels, batch norm",
    .layers = resnet20,
    .count = COUNT(resnet20),
};

const gwt_model_spec gwt_model_vgg16 = {
    .name = "vgg16",
    .summary = "13 convolutions, batch norm, one dense layer; 32 x 32 pixels",
    .layers = vgg16,
    .count = COUNT(vgg16),
    .in = {.height = 32, .width = 32},
};
