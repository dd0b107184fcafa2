package datasets

var (
	cifar10, cifar100                          = table().CIFAR[0], table().CIFAR[1]
	voc, ade20k, cityscapes, camVid, cocoStuff = layoutOf("voc2012"), layoutOf("ade20k"), layoutOf("cityscapes"), layoutOf("camvid"), layoutOf("coco")
)

// classesOf are the names of categories.
func classesOf(in *Instances) (names []string) {
	for _, category := range in.Categories {
		names = append(names, category.Name)
	}
	return names
}
