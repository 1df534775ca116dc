{
  # For whoever calls node-gyp; npm itself runs the install script of package.json. The build facts are in
  # native/CMakeLists.txt alone; this only starts the npm script that reads them.
  "targets": [
    {
      "target_name": "acoer",
      "type": "none",
      "actions": [
        {
          "action_name": "npm_build_native",
          "message": "libtorch and the native addon",
          "inputs": ["scripts/setup.mjs"],
          # Never made, so that the script runs each time and itself decides what is out of date.
          "outputs": ["<(INTERMEDIATE_DIR)/always"],
          "action": ["npm", "run", "--silent", "build:native"]
        }
      ]
    }
  ]
}
