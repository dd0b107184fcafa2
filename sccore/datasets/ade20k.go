package datasets

import (
	"path/filepath"
	"strings"
)

var ade20k = &layout{
	key: "ade20k", name: "ADE20k",
	classes: strings.Split("wall,building,sky,floor,tree,ceiling,road,bed,windowpane,grass,cabinet,sidewalk,person,earth,door,table,mountain,plant,"+
		"curtain,chair,car,water,painting,sofa,shelf,house,sea,mirror,rug,field,armchair,seat,fence,desk,rock,wardrobe,lamp,bathtub,railing,"+
		"cushion,base,box,column,signboard,chest of drawers,counter,sand,sink,skyscraper,fireplace,refrigerator,grandstand,path,stairs,runway,"+
		"case,pool table,pillow,screen door,stairway,river,bridge,bookcase,blind,coffee table,toilet,flower,book,hill,bench,countertop,stove,"+
		"palm,kitchen island,computer,swivel chair,boat,bar,arcade machine,hovel,bus,towel,light,truck,tower,chandelier,awning,streetlight,"+
		"booth,television,airplane,dirt track,apparel,pole,land,bannister,escalator,ottoman,bottle,buffet,poster,stage,van,ship,fountain,"+
		"conveyer belt,canopy,washer,plaything,swimming pool,stool,barrel,basket,waterfall,tent,bag,minibike,cradle,oven,ball,food,step,tank,"+
		"trade name,microwave,pot,animal,bicycle,lake,dishwasher,screen,blanket,sculpture,hood,sconce,vase,traffic light,tray,ashcan,fan,pier,"+
		"crt screen,plate,monitor,bulletin board,shower,radiator,glass,clock,flag", ","),
	official: map[Split]int{Train: 20210, Test: 2000},
	list:     (*layout).listADE20k,
	mask: idMask(func(id uint32) (uint8, bool) {
		if id == 0 { // None of the 150 classes.
			return Ignore, true
		}
		return uint8(id - 1), id <= 150
	}),
}

// ADE20k opens the scene parsing benchmark of ADE20K (Zhou et al. 2017), with its 150 classes in the order of objectInfo150.txt. The dataset
// is ADEChallengeData2016 below dir, or dir itself, with the folders images and annotations. Each has the subfolders training, 20,210
// images, and validation, 2,000, the test split here. A grey mask holds 1 to 150 for classes 0 to 149, and 0 for anything else, which is
// ignored. A sample in dir/ade20k without these subfolders is split in half.
func ADE20k(dir string, split Split) (*Segmentation, error) { return ade20k.open(dir, split) }

func (s *layout) listADE20k(dir string, split Split) (folder string, pairs []pair, err error) {
	folder, err = s.locate(dir, []string{"ADEChallengeData2016", "ade20k/ADEChallengeData2016", "ade20k", "."}, "images", "annotations")
	if err != nil {
		return "", nil, err
	}
	part := map[Split]string{Train: "training", Test: "validation"}[split]
	halved := !exists(filepath.Join(folder, "images", "training")) && !exists(filepath.Join(folder, "images", "validation"))
	if halved {
		part = ""
	}
	names, err := filesIn(filepath.Join(folder, "images", part), ".jpg")
	if err != nil {
		return "", nil, err
	}
	if halved {
		names = shareOf(names, split)
	}
	for _, name := range names {
		pairs = append(pairs, pair{filepath.Join(folder, "images", part, name+".jpg"), filepath.Join(folder, "annotations", part, name+".png")})
	}
	return folder, pairs, nil
}
